package main

import (
	"path"
	"regexp"
	"strings"
)

// notNeeded are folders and files that hosts never read. The licences in /usr/share/doc stay.
var notNeeded = []string{
	"usr/games", "usr/include", "usr/lib/mime", "usr/lib/systemd", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d",
	"usr/lib/udev", "usr/lib/x86_64-linux-gnu/wine/i386-windows", "usr/lib/x86_64-linux-gnu/wine/i386-unix",
	"usr/i686-w64-mingw32", "usr/x86_64-w64-mingw32ucrt", "usr/share/applications", "usr/share/base-files",
	"usr/share/bash-completion", "usr/share/bug", "usr/share/bash_completion", "usr/share/common-licenses",
	"usr/share/doc-base", "usr/share/gdb", "usr/share/icons", "usr/share/info", "usr/share/lintian",
	"usr/share/locale", "usr/share/man", "usr/share/menu", "usr/share/pixmaps", "usr/share/zsh",
	"usr/share/polkit-1", "usr/share/initramfs-tools", "usr/share/debconf", "usr/share/pam", "usr/share/pam-configs",
}

// noWindow are the parts of Wine for pictures and sound that are linked with libraries which the root does not have
// (excluded), and the parts that are linked with these. They would not load.
var noWindow = regexp.MustCompile(`^(avicap32|capi2032|gphoto2|opencl|qcap|winscard|wpcap|` +
	`wine(alsa|bth|bus|dmo|gstreamer|pulse|usb|vulkan|wayland|x11))\.so$`)

// needed reports whether a file of a package, or a folder, belongs into the root. name is counted from the root,
// without a slash in front.
func needed(name string, folder bool) bool {
	if name == "usr" {
		return true
	}
	if !strings.HasPrefix(name, "usr/") {
		return strings.HasPrefix(name, "etc/ld.so.conf") || folder && name == "etc" ||
			!folder && (name == "bin" || name == "sbin" || name == "lib" || name == "lib64")
	}
	for _, f := range notNeeded {
		if name == f || strings.HasPrefix(name, f+"/") {
			return false
		}
	}
	if strings.HasPrefix(name, "usr/share/doc/") {
		return folder || path.Base(name) == "copyright"
	}
	if strings.HasPrefix(name, "usr/x86_64-w64-mingw32/") {
		return folder || name == zlib
	}
	return path.Base(path.Dir(name)) != "x86_64-unix" || !noWindow.MatchString(path.Base(name))
}
