package platform

// MountPointsBelow lists nothing: on Windows containers' file systems are not mounted at folders.
func MountPointsBelow(string) ([]string, error) { return nil, nil }

// Detach is not called, as nothing is listed.
func Detach(string) error { return nil }
