package guest

// Launcher is our program of that name, see emulator/dll/launch.c.
const Launcher = `C:\windows\system32\porthole-launch.exe`
