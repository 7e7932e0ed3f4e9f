"""Results as documents, folders and a cache, and how they are checked."""
