"""What recorded usage tells: which settings would have served a fleet better."""
