"""Programs that measure speed, with their tests."""
