"""What a torture run tells people: one HTML file, and one screen in the terminal."""
