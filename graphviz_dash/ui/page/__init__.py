"""Elements shared by all pages: frame, navigation, URL state, widgets."""
