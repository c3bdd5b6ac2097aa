"""What the recommender decides, from values and arrays alone."""
