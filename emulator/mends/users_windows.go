package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strings"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

var (
	netapi    = windows.NewLazySystemDLL("netapi32.dll")
	logonUser = windows.NewLazySystemDLL("advapi32.dll").NewProc("LogonUserW")
)

// Errors of the network management functions (lmerr.h).
const (
	groupNotFound = syscall.Errno(2220)
	userNotFound  = syscall.Errno(2221)
	userExists    = syscall.Errno(2224)
)

// utf16 panics for a text with a NUL, which the checks do not have.
func utf16(s string) *uint16 {
	p, err := windows.UTF16PtrFromString(s)
	if err != nil {
		panic(err)
	}
	return p
}

// manage calls a function of netapi32.dll on this host.
func manage(function string, args ...uintptr) error {
	if status, _, _ := netapi.NewProc(function).Call(append([]uintptr{0}, args...)...); status != 0 {
		return syscall.Errno(status)
	}
	return nil
}

// ptr is a pointer as an argument of a call.
func ptr[T any](p *T) uintptr { return uintptr(unsafe.Pointer(p)) }

// logon returns the token of a user, which the caller closes.
func logon(name, domain, password string, kind uintptr) (token windows.Token, err error) {
	ok, _, err := logonUser.Call(ptr(utf16(name)), ptr(utf16(domain)), ptr(utf16(password)), kind, 0, ptr(&token))
	if ok == 0 {
		return 0, err
	}
	return token, nil
}

// Windows' numbers of the kinds of logon (LogonUserW).
const (
	interactiveLogon = 2
	serviceLogon     = 5
)

// testUser is made and deleted by the check.
const testUser = "mends-user"

// userInfo is USER_INFO_1, of NetUserAdd.
type userInfo struct {
	name, password *uint16
	age, priv      uint32
	home, comment  *uint16
	flags          uint32
	script         *uint16
}

// groupInfo is LOCALGROUP_INFO_1, of NetLocalGroupAdd.
type groupInfo struct{ name, comment *uint16 }

// users makes a local user and a group, as hcsshim does for a HostProcess container that runs as a group, and runs
// programs as users.
func users() error {
	account := userInfo{name: utf16(testUser), password: utf16("secret"), priv: 1, flags: 0x200}
	group := groupInfo{utf16("mends group"), utf16("a comment")}
	remove := func() error {
		return errors.Join(manage("NetUserDel", ptr(account.name)), manage("NetLocalGroupDel", ptr(group.name)))
	}
	_ = remove() // what a check has left that failed

	if err := makeAccounts(&account, &group); err != nil {
		return err
	}
	sid, domain, err := identify(&group)
	if err != nil {
		return err
	}
	if err := errors.Join(refusedLogons(), logons(sid, domain), remove()); err != nil {
		return err
	}
	if err := manage("NetUserDel", ptr(account.name)); err != userNotFound {
		return fmt.Errorf("a user that is gone: %w", err)
	}
	return nil
}

// makeAccounts makes the user and the group, and looks for what is there and what is not before and afterwards.
func makeAccounts(account *userInfo, group *groupInfo) error {
	var info *byte
	there := func(name *uint16) error { return manage("NetLocalGroupGetInfo", ptr(name), 1, ptr(&info)) }
	if err := there(group.name); err != groupNotFound {
		return fmt.Errorf("a group that is not there: %w", err)
	}
	if err := there(utf16("administrators")); err != nil {
		return fmt.Errorf("Windows' own group: %w", err)
	}
	if _, _, _, err := windows.LookupSID("", testUser); !errors.Is(err, windows.ERROR_NONE_MAPPED) {
		return fmt.Errorf("a user that is not there: %w", err)
	}

	add := func() error { return manage("NetUserAdd", 1, ptr(account), 0) }
	if err := errors.Join(add(), manage("NetLocalGroupAdd", 1, ptr(group), 0), there(group.name)); err != nil {
		return err
	}
	if err := add(); err != userExists {
		return fmt.Errorf("a user that is there: %w", err)
	}
	return nil
}

// identify finds the user by the name and by the SID, and makes it a member of the group.
func identify(group *groupInfo) (sid *windows.SID, domain string, err error) {
	sid, domain, kind, err := windows.LookupSID("", testUser)
	if err != nil || kind != windows.SidTypeUser || domain == "" {
		return nil, "", fmt.Errorf("the user's SID: %v of %q, %d, %w", sid, domain, kind, err)
	}
	if name, _, _, err := sid.LookupAccount(""); err != nil || name != testUser {
		return nil, "", fmt.Errorf("%v is %q, %w", sid, name, err)
	}
	if err := manage("NetLocalGroupAddMembers", ptr(group.name), 0, ptr(&sid), 1); err != nil {
		return nil, "", fmt.Errorf("a member: %w", err)
	}
	return sid, domain, nil
}

// refusedLogons tries logons that Windows refuses.
func refusedLogons() error {
	for _, refused := range []struct {
		name, domain, password string
		kind                   uintptr
	}{
		{testUser, "", "wrong", interactiveLogon},
		{"nobody", "", "", interactiveLogon},
		{"SYSTEM", "NT AUTHORITY", "", interactiveLogon},
		{"nobody", "NT AUTHORITY", "", serviceLogon},
	} {
		_, err := logon(refused.name, refused.domain, refused.password, refused.kind)
		if !errors.Is(err, windows.ERROR_LOGON_FAILURE) {
			return fmt.Errorf("%+v: %w", refused, err)
		}
	}
	return nil
}

// logons runs this program as users, and compares what it then says of its user.
func logons(sid *windows.SID, domain string) error {
	const profiles = `C:\Windows\ServiceProfiles\`
	for _, as := range []struct {
		name, domain, password string
		kind                   uintptr
		want                   string
	}{
		{testUser, "", "secret", interactiveLogon,
			domain + `\mends-user ` + sid.String() + ` mends-user C:\Users\mends-user`},
		{"SYSTEM", "NT AUTHORITY", "", serviceLogon,
			`NT AUTHORITY\SYSTEM S-1-5-18 ` + domain + `$ C:\Windows\system32\config\systemprofile`},
		{"LocalService", "NT AUTHORITY", "", serviceLogon,
			`NT AUTHORITY\LOCAL SERVICE S-1-5-19 LOCAL SERVICE ` + profiles + "LocalService"},
		{"NETWORK SERVICE", "NT AUTHORITY", "", serviceLogon,
			`NT AUTHORITY\NETWORK SERVICE S-1-5-20 ` + domain + `$ ` + profiles + "NetworkService"},
	} {
		token, err := logon(as.name, as.domain, as.password, as.kind)
		if err != nil {
			return fmt.Errorf("%s: %w", as.name, err)
		}

		// The program runs itself with the token, and prints who it is.
		cmd := exec.Command(os.Args[0], "who")
		cmd.SysProcAttr = &syscall.SysProcAttr{Token: syscall.Token(token)}
		out, err := cmd.CombinedOutput()
		token.Close()
		if err != nil || !strings.EqualFold(strings.TrimSpace(string(out)), as.want) {
			return fmt.Errorf("as %s: %s, want %s, %w", as.name, out, as.want, err)
		}
	}
	return nil
}

// who prints who runs the program.
func who() {
	u, err := windows.GetCurrentProcessToken().GetTokenUser()
	if err != nil {
		fmt.Println(err)
		return
	}
	name, domain, _, err := u.User.Sid.LookupAccount("")
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(domain+`\`+name, u.User.Sid, os.Getenv("USERNAME"), os.Getenv("USERPROFILE"))
}

// userPrograms uses `net` and `whoami`, as pods do.
func userPrograms() error {
	for _, c := range []struct{ command, want string }{
		{"net user mends-other secret /add", "The command completed successfully."},
		{"net localgroup mends-group /add", "The command completed successfully."},
		{"net localgroup mends-group mends-other /add", "The command completed successfully."},
		{"net localgroup mends-group mends-other /add", "System error 1378 has occurred."},
		{"net localgroup none", "The group name could not be found."},
		{"net user mends-other /delete", "The command completed successfully."},
		{"net localgroup mends-group /delete", "The command completed successfully."},
		{"net user mends-other", "The user name could not be found."},
		{"whoami /nothing", "ERROR: Invalid argument/option - '/nothing'."},
	} {
		out, _ := exec.Command("cmd", "/c", c.command).CombinedOutput() // some fail
		if !strings.Contains(string(out), c.want) {
			return fmt.Errorf("%s: %s, want %s", c.command, out, c.want)
		}
	}
	out, err := exec.Command("whoami").Output()
	if u, e := user.Current(); err != nil || e != nil || strings.TrimSpace(string(out)) != strings.ToLower(u.Username) {
		return fmt.Errorf("whoami: %s, %w, %w", out, err, e)
	}
	return nil
}
