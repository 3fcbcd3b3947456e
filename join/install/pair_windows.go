package install

// storePair replaces the file, which on Windows is no link: making one takes a privilege.
func storePair(path string, pair []byte) error { return write(path, pair, 0o600) }
