"""What webhook, recommender and updater all decide with: matching, caps, limits, boost."""
