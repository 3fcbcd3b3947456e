package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"golang.org/x/sys/windows"
	"mvdan.cc/sh/v3/interp"
)

// powershell does what the scripts do that tests run: sleep -Seconds N (also Start-Sleep N, and after Write-Host
// 'TEXT';); a loop in eight jobs, which uses all the time of the processors that it gets; filePermissions.ps1
// -FileName FILE, by which mounttest of agnhost reads a file's permissions as an octal number; and what script knows.
func powershell(ctx context.Context, c interp.HandlerContext, args []string) error {
	script, file := "", ""
	if text := strings.Join(args, " "); sleeps.MatchString(text) {
		found := sleeps.FindStringSubmatch(text)
		if found[1] != "" {
			fmt.Fprintln(c.Stdout, found[1])
		}
		seconds, _ := strconv.Atoi(found[2]) // digits by the expression
		return wait(ctx, time.Duration(seconds)*time.Second)
	} else if burns.MatchString(text) {
		return burn(ctx)
	}

	for i, a := range args {
		switch {
		case strings.EqualFold(a, "-FileName") && i+1 < len(args):
			file = args[i+1]
		case strings.EqualFold(filepath.Ext(a), ".ps1"):
			script = filepath.Base(a)
		}
	}
	if script != "filePermissions.ps1" || file == "" {
		return ownScript(c, args)
	}
	acl, err := accessOf(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(c.Stdout, "0%o\n", acl.mode())
	return nil
}

// ownScript runs a script that is given with -Command, or in a file.
func ownScript(c interp.HandlerContext, args []string) error {
	env := func(name string) string { return c.Env.Get(name).String() }
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		option := strings.ToLower(args[0])
		args = args[1:]
		if option == "-c" || option == "-command" {
			return runScript(strings.Join(args, " "), c.Stdout, env)
		}
		if option == "-file" {
			break
		}
	}
	if len(args) == 0 || !strings.EqualFold(filepath.Ext(args[0]), ".ps1") {
		return runScript(strings.Join(args, " "), c.Stdout, env)
	}
	text, err := os.ReadFile(args[0])
	if err != nil {
		return err
	}
	return runScript(string(text), c.Stdout, env)
}

// The expressions fit the whole command line without the name.
var (
	sleeps = regexp.MustCompile(
		`^(?:-Command |-c )?(?:Write-Host '([^']+)'; ?)?(?:sleep|Start-Sleep)(?: -Seconds)? (\d+)$`)
	burns = regexp.MustCompile(`^-Command foreach \(\$loopnumber in 1\.\.8\) \{ Start-Job `)
)

// wait ends early with the context's error.
func wait(ctx context.Context, long time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(long):
		return nil
	}
}

// burn computes in eight threads until ctx ends.
func burn(ctx context.Context) error {
	var jobs sync.WaitGroup
	for range 8 {
		jobs.Go(func() {
			for n := uint64(1); ctx.Err() == nil; {
				for range 1 << 20 {
					n = n*1340371 + 1
				}
			}
		})
	}
	jobs.Wait()
	return ctx.Err()
}

// access is what a file's security descriptor says, in names of accounts as Get-Acl has them.
type access struct {
	owner, group string
	allowed      []rule
}

// rule is one entry of the access list.
type rule struct {
	account string
	rights  windows.ACCESS_MASK
}

// Rights that make up a digit, as the script has them.
const (
	rightsRead  = windows.FILE_READ_DATA | windows.FILE_READ_ATTRIBUTES
	rightsWrite = windows.FILE_WRITE_DATA | windows.FILE_APPEND_DATA | windows.FILE_WRITE_ATTRIBUTES |
		windows.FILE_WRITE_EA
	rightsExecute = windows.FILE_READ_DATA | windows.FILE_EXECUTE
)

// mode has a digit each for the owner, the group, and the accounts that are called users. A later rule for one of them
// wins, as in the script.
func (a access) mode() uint32 {
	var user, group, other uint32
	for _, r := range a.allowed {
		var digit uint32
		// A digit has the bits of chmod; a bit needs all of its rights.
		for bit, all := range map[uint32]windows.ACCESS_MASK{4: rightsRead, 2: rightsWrite, 1: rightsExecute} {
			if r.rights&all == all {
				digit |= bit
			}
		}
		if r.account == a.owner {
			user = digit
		}
		if r.account == a.group {
			group = digit
		}
		if strings.Contains(strings.ToLower(r.account), "users") {
			other = digit
		}
	}
	return user<<6 | group<<3 | other
}

// accessOf reads the owner, the group and the rules that allow something. Rules that deny are left out: what the tests
// ask is shown by the others.
func accessOf(file string) (access, error) {
	sd, err := windows.GetNamedSecurityInfo(file, windows.SE_FILE_OBJECT,
		windows.OWNER_SECURITY_INFORMATION|windows.GROUP_SECURITY_INFORMATION|windows.DACL_SECURITY_INFORMATION)
	if err != nil {
		return access{}, fmt.Errorf("reading the security descriptor of %s: %w", file, err)
	}
	owner, _, err := sd.Owner()
	if err != nil {
		return access{}, err
	}

	group, _, err := sd.Group()
	if err != nil {
		return access{}, err
	}
	dacl, _, err := sd.DACL()
	if err != nil {
		return access{}, fmt.Errorf("access list of %s: %w", file, err)
	}
	names, err := accounts(owner, group)
	if err != nil {
		return access{}, err
	}

	// The SID begins in the last field of the entry and goes on behind it.
	a := access{owner: names(owner), group: names(group)}
	for i := range uint32(dacl.AceCount) {
		var ace *windows.ACCESS_ALLOWED_ACE
		if err := windows.GetAce(dacl, i, &ace); err != nil {
			return access{}, fmt.Errorf("rule %d of the access list of %s: %w", i, file, err)
		}
		if ace.Header.AceType == windows.ACCESS_ALLOWED_ACE_TYPE {
			a.allowed = append(a.allowed, rule{names((*windows.SID)(unsafe.Pointer(&ace.SidStart))), ace.Mask})
		}
	}

	return a, nil
}

// wineUser is the one account that Wine has for files (server/security.h, local_user_sid).
const wineUser = "S-1-5-21-0-0-0-1000"

// accounts names the accounts of a file whose owner and group these are.
//
// A file of Wine has no list of its own: Wine makes one of the Linux mode (server/file.c), with what the owner may do,
// what Everyone may do, and everything for SYSTEM; the group is one that no rule is about. On Windows a file of a
// volume has what it inherits from the folders above: the owner is Administrators, as the kubelet's account is one of
// them, the group is SYSTEM, and the rule for all others is about Users. So where the owner is Wine's account, these
// accounts go by their names on Windows. The rights stay what the file says.
func accounts(owner, group *windows.SID) (func(*windows.SID) string, error) {
	known := map[string]windows.WELL_KNOWN_SID_TYPE{}
	if owner.String() == wineUser {
		everyone, err := windows.CreateWellKnownSid(windows.WinWorldSid)
		if err != nil {
			return nil, err
		}
		known[owner.String()] = windows.WinBuiltinAdministratorsSid
		known[group.String()] = windows.WinLocalSystemSid
		known[everyone.String()] = windows.WinBuiltinUsersSid
	}

	return func(sid *windows.SID) string {
		if kind, ok := known[sid.String()]; ok {
			if like, err := windows.CreateWellKnownSid(kind); err == nil {
				sid = like
			}
		}
		name, domain, _, err := sid.LookupAccount("")
		switch {
		case err != nil:
			return sid.String()
		case domain == "":
			return name
		}
		return domain + `\` + name
	}, nil
}
