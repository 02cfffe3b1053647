"""What every page has: frame, navigation, URL state, widgets."""
