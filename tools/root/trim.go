package main

import (
	"path"
	"regexp"
	"strings"
)

// notNeeded are folders and files that hosts never read. The licences in /usr/share/doc stay.
var notNeeded = []string{
	"usr/games", "usr/include", "usr/lib/mime", "usr/lib/x86_64-linux-gnu/gconv", "usr/src", "usr/share/dict",
	"usr/share/fish", "usr/lib/systemd", "usr/lib/sysusers.d", "usr/lib/tmpfiles.d",
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

// noPicture are Wine's programs and libraries for Windows that draw, play and record, games, the browser, help, and
// programs with windows of their own: Windows Server Core has hardly any of them, and nothing here could show or
// hear it. Wine's debugger is one of them: it writes for seconds about a program that crashed, which all that wait
// for the program's end wait for.
var noPicture = regexp.MustCompile(`^(` +
	`amstream|appwiz|cards|clock|colorcnv|desk|d2d1|d3d\w*|ddraw|ddrawex|devenum|dinput8?|dm(band|compos|ime|loader|script|style|synth|usic|usic32)|` +
	`dhtmled|dp(lay|layx|modemx|n\w+|voice|vsetup|wsockx)|dsdmo|dsound|dswave|dx8vb|dxdiagn?|dxtrans|dxva2|evr|` +
	`gameux|glu32|gphoto2|hh|hhctrl|ieframe|iexplore|inetcpl|ir50_32|joy|` +
	`l3codec\w|light|mci\w+|mf[a-z0-9]*|mp3dmod|msauddecmft|mshtml|` +
	`msmpeg2vdec|mstts\w+|msvproc|notepad|oleview|progman|qasf|qcap|qdvd|qedit|quartz|` +
	`regedit|resampledmo|sane|sapi|taskmgr|twain(_32|dsm)|vulkan-1|windows\.gaming\..*|` +
	`wine(cfg|dbg|dmo|file|gstreamer|mine|ps|vulkan|wayland|x11)|winhlp32|wm(adec|adexp|admod|asf|p|` +
	`photo|player|vcore|vdecod)|wordpad|x3daudio\w+|xa(ctengine|pofx|udio)\w+|xinput\w+` +
	`)\.(cpl|dll|drv|ds|exe|acm|ax|msstyles|ocx|tlb)$`)

// noRuntime are the libraries of C and C++ compilers that never made a program for 64 bits.
var noRuntime = regexp.MustCompile(`^(crtdll|msvcrtd|msvc[pr]7[01])\.dll$`)

// noProgram are programs of wanted packages that no host starts.
var noProgram = regexp.MustCompile(`^usr/(` +
	`bin/(localedef|lslogins|ovn-(appctl|debug|ic.*)|ovs-dpctl|ovsdb-client|vtysh)|` +
	`lib/frr/(babel|bfd|eigrp|fabric|isis|ldp|nhrp|ospf6?|path|pbr|pim6?|rip|ripng|vrrp)d|` +
	`lib/x86_64-linux-gnu/frr/modules/pathd_.*|` +
	`sbin/(arpd|dcb|debugfs|devlink|e2scrub.*|genl|tipc|vdpa|zic)|` +
	`share/openvswitch/python.*|share/yang/.*)$`)

// noLibrary are libraries that no program of the root is linked with: of C++, vectors of numbers, the last
// log-ins with their database, and for packing certificates, which GnuTLS does only if it is there.
var noLibrary = regexp.MustCompile(`^usr/lib/x86_64-linux-gnu/` +
	`(libbrotlienc|liblastlog2|liblua5\.3-c\+\+|libmvec|libsqlite3|libstdc\+\+)\.so`)

// needed reports whether a file of a package, or a folder, belongs into the root. name is counted from the root,
// without a slash in front.
func needed(name string, folder bool) bool {
	if name == "usr" {
		return true
	}
	// Outside of usr there are only the loader's configuration and the links that lead into usr.
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

	// Wine's own modules are in two folders by their kind; each has its own list of what is left
	// out.
	switch folder, base := path.Split(name); path.Base(folder) {
	case "x86_64-unix":
		return !noWindow.MatchString(base)
	case "x86_64-windows":
		return !noPicture.MatchString(base) && !noRuntime.MatchString(base)
	}
	return !noProgram.MatchString(name) && !noLibrary.MatchString(name)
}
