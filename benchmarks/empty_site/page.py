import streamlit as st

st.html('<p class="own">Nothing else</p>')
