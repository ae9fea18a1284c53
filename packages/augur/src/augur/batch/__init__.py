"""Many prompts from a file, their answers into another, through any number of interruptions."""
