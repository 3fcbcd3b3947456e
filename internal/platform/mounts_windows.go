package platform

// MountPointsBelow returns nothing: on Windows, file systems of containers are not mounted at folders.
func MountPointsBelow(string) ([]string, error) { return nil, nil }

// Detach is never called: MountPointsBelow returns nothing.
func Detach(string) error { return nil }
