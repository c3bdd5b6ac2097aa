"""The webhook: writes recommended resources into pods as they are created, and validates VPAs."""
