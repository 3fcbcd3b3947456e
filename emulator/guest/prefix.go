package guest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// noFonts keeps fontconfig, which Wine loads for a console, from complaining on the user's terminal that there are
// none.
const noFonts = `<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig><cachedir>/prefix</cachedir></fontconfig>
`

// MakePrefix makes what a container needs beside its C: in the folder dir, which exists:
//
//	prefix/           registry files and drive letters; drive_c is where C: is mounted
//	tmp/              for the wineserver's socket
//	nsswitch.conf     for its /etc
//
// The registry is the template's; add says what is appended to which file of it.
func MakePrefix(dir, template string, add map[string]string) error {
	for _, name := range []string{"tmp", "prefix/dosdevices", "prefix/drive_c", "prefix/run", "prefix/pipes"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return err
		}
	}

	for _, name := range []string{"system.reg", "user.reg", "userdef.reg", ".update-timestamp"} {
		data, err := os.ReadFile(filepath.Join(template, name))
		if errors.Is(err, os.ErrNotExist) && name == ".update-timestamp" {
			data, err = []byte("disable\n"), nil
		}
		if err != nil {
			return fmt.Errorf("reading the Wine template: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, "prefix", name), append(data, add[name]...), 0o644); err != nil {
			return err
		}
	}

	if err := MakeDrives(filepath.Join(dir, "prefix/dosdevices")); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "nsswitch.conf"), []byte("hosts: files dns\n"), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "prefix/fonts.conf"), []byte(noFonts), 0o644)
}

// MakeDrives makes the drive letters of a prefix in its folder dosdevices, which has none.
func MakeDrives(dosdevices string) error {
	// Wine wants a drive for its own files. It must not be the Linux root: Wine would then take a path like /etc/hosts
	// for a Linux one, while on Windows it is C:\etc\hosts (ntdll looks for the drive whose folder such a path begins
	// with).
	return errors.Join(os.Symlink("../drive_c", filepath.Join(dosdevices, "c:")),
		os.Symlink("/usr", filepath.Join(dosdevices, "z:")))
}

// AddDrive gives the prefix that MakePrefix made in dir another drive, which is empty: a letter from d to y.
func AddDrive(dir string, letter byte) error {
	if err := os.MkdirAll(filepath.Join(dir, "prefix", driveFolder(letter)), 0o755); err != nil {
		return err
	}
	err := os.Symlink("../"+driveFolder(letter), filepath.Join(dir, "prefix/dosdevices", string(letter)+":"))
	if errors.Is(err, os.ErrExist) {
		return nil
	}
	return err
}
