package guest

import "strings"

// KnownUser reports whether Windows lets a program run as a user: none, one of the two that every container has, or one of the
// services' accounts. Users that an image has made are not known here, unless the image itself names one as its user.
func KnownUser(name string) bool {
	if domain, account, ok := strings.Cut(name, `\`); ok && strings.EqualFold(domain, "NT AUTHORITY") {
		name = account
	}
	switch strings.ToLower(name) {
	case "", "containeruser", "containeradministrator", "system", "local service", "network service", "localservice", "networkservice":
		return true
	}
	return false
}
