"""What `import accelsim` offers, and what each command calls: problems as users name them, and results that show themselves."""
