package main

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/windows"
)

// owners gives a file and a folder an owner, as containerd does when it copies the files of a volume, and asks whose
// they are. The access list is the same as before.
func owners() error {
	// The account that containers have as ContainerUser.
	const containerUser = "S-1-5-93-2-2"
	sid, err := windows.StringToSid(containerUser)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return err
	}

	for _, path := range []string{file, dir} {
		first, list, err := security(path)
		if err != nil {
			return err
		}
		if err := windows.SetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.OWNER_SECURITY_INFORMATION, sid,
			nil, nil, nil); err != nil {
			return fmt.Errorf("setting the owner: %v", err)
		}
		owner, again, err := security(path)
		if err != nil || owner != containerUser || first == containerUser || list != again {
			return fmt.Errorf("%s: owner %s, then %s, access %s, then %s, %v", path, first, owner, list, again, err)
		}
	}
	// The host itself knows no name for it.
	if name, _, _, err := sid.LookupAccount("."); err == nil {
		return fmt.Errorf("the host has a user %s, which only containers have", name)
	}
	return nil
}

// security returns the owner of a file and its access list.
func security(path string) (owner, list string, err error) {
	d, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "", "", fmt.Errorf("reading the owner: %v", err)
	}
	sid, _, err := d.Owner()
	if err != nil {
		return "", "", err
	}
	rights, err := windows.GetNamedSecurityInfo(path, windows.SE_FILE_OBJECT, windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return "", "", err
	}
	return sid.String(), rights.String(), nil
}
