"""What people ask about: how recommendations stand, and what becomes of one pod or VPA."""
