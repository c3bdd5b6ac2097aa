"""The verdict on an object that is being written."""
