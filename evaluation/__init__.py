"""Programs that measure accuracy and safety, with their tests."""
