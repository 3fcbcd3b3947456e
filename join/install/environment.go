package install

import (
	"maps"
	"slices"
	"strings"
)

// EnvironmentFile returns variables as the file of a unit's EnvironmentFile= has them (systemd.exec(5)): in quotes,
// with backslashes in front of what ends them. It returns nothing for no variables.
func EnvironmentFile(env map[string]string) (text []byte) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "`", "\\`", "$", `\$`)
	for _, name := range slices.Sorted(maps.Keys(env)) {
		text = append(text, name+`="`+quoted.Replace(env[name])+"\"\n"...)
	}
	return text
}
