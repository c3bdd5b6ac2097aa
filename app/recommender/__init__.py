"""The recommender: learns from usage what containers need, and publishes it on the VPAs."""
