package wine

// Owner is the user and the group of this machine as which the Windows programs of emulated hosts and of their
// containers run. It has no rights on the machine. It lies where systemd allocates nobody (systemd.io/UIDS-GIDS:
// 1879048192 to 2147483647 is unused).
//
// All hosts have the same one, so that they can share a template. What keeps them apart is that each has its own view
// of files and processes.
const Owner = 1_900_000_000
