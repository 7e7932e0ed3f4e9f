"""What `import accelsim` offers, and what each command calls: problems, and results that show themselves."""
