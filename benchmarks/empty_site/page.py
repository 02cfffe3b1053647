"""A page of one element."""

import streamlit as st

st.html('<p class="own">Nothing else</p>')
