package images

// windowsCommands are the names that the shell of Windows images (test/conformance/shell) knows.
var windowsCommands = []string{
	"awk", "cat", "chmod", "chown", "cp", "curl", "date", "dig", "echo", "env", "expr", "false", "find", "grep", "head",
	"hexdump", "hostname", "id", "ls", "mkdir",
	"mv", "nc", "nslookup", "powershell", "printf", "pwd", "rm", "seq", "sh", "sleep", "sync", "tail", "test", "touch",
	"true", "uname", "wc", "wget", "xargs",
}

// WindowsShell makes a layer of a Windows image with the shell of test/conformance/shell, from program, under the
// names of all commands that it knows.
func (l *Layer) WindowsShell(program string) error {
	for _, dir := range []string{"Files", "Hives", "Files/bin"} {
		l.Dir(dir, 0o755)
	}
	l.Dir("Files/tmp", 0o777)
	for _, name := range windowsCommands {
		l.Same("Files/bin/busybox.exe", "Files/bin/"+name+".exe")
	}
	return l.File("Files/bin/busybox.exe", program, 0o755)
}
