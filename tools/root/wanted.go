package main

// suite is the release of Debian that the packages are of.
const suite = "trixie"

// wanted are the packages that hosts need; what these depend on comes with them.
var wanted = []string{
	"wine64",
	"libz-mingw-w64", // zlib1.dll, of which libwine makes a library of Wine's when it is installed
	"libgnutls30t64", // Wine opens it for bcrypt.dll and secur32.dll
	"libc-bin",       // ldconfig
	"util-linux", "mount", "nftables", "iptables", "iproute2", "e2fsprogs", "kmod",
	"openvswitch-switch", "ovn-central", "ovn-host", "frr", // for --network ovn and bgp
	"bash", "busybox-static", "ca-certificates", "coreutils", "dash", "debianutils",
	"findutils", "grep", "gzip", "procps", "sed", "tar", "tzdata", "xz-utils",
}

// excluded are packages that something wanted depends on, and no host can use: sound, cameras, films, windows of X11
// and Wayland, smart cards, capturing, what Debian's installation and log-in need, and what keeps services of a
// machine. The parts of Wine that are linked with them do not load.
var excluded = []string{
	"libasound2t64", "libavcodec61", "libavformat61", "libavutil59", "libcapi20-3t64", "libglib2.0-0t64",
	"libgphoto2-6t64", "libgphoto2-port12t64", "libgstreamer-plugins-base1.0-0", "libgstreamer1.0-0",
	"libpcap0.8t64", "libpcsclite1", "libpulse0", "libusb-1.0-0", "libwayland-client0", "libwayland-egl1",
	"libx11-6", "libxext6", "libxkbcommon0", "libxkbregistry0", "ocl-icd-libopencl1", "adduser", "debconf", "dpkg",
	"fontconfig-config", "gawk", "init-system-helpers", "login", "login.defs", "openssl-provider-legacy", "passwd",
	"perl-base", "systemd", "libpam-modules", "libpam-modules-bin", "libpam-runtime", "openssl", "libdb5.3t64",
	"cron", "logrotate", "lsb-release", "lsof", "media-types", "python3", "sensible-utils", "uuid-runtime",
}
