package guest

import "strings"

// sids are the users that Windows lets a program of any container run as, in small letters: the two of containers
// (containerd, integration/volume_copy_up_test.go), and the services' accounts (Microsoft, "Well-known SIDs").
var sids = map[string]string{
	"containeradministrator": "S-1-5-93-2-1", "containeruser": "S-1-5-93-2-2", "system": "S-1-5-18",
	"local service": "S-1-5-19", "localservice": "S-1-5-19", "network service": "S-1-5-20",
	"networkservice": "S-1-5-20",
}

// UserSID is the SID of a user of a container, that of ContainerAdministrator without a name. ok is false for one that
// an image has made, unless the image itself names it as its user.
func UserSID(name string) (sid string, ok bool) {
	if domain, account, found := strings.Cut(name, `\`); found &&
		(strings.EqualFold(domain, "NT AUTHORITY") || strings.EqualFold(domain, "User Manager")) {
		name = account
	}
	if name == "" {
		name = "ContainerAdministrator"
	}
	sid, ok = sids[strings.ToLower(name)]
	return sid, ok
}

// KnownUser reports whether Windows lets a program run as a user.
func KnownUser(name string) bool {
	_, ok := UserSID(name)
	return ok
}
