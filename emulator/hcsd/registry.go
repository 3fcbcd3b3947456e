package hcsd

import (
	"fmt"
	"strings"
)

// hiveRoots are the keys of Wine's system hive by the names of HCS' hives (RegistryHive of the schema), in lower case.
var hiveRoots = map[string]string{"system": "System", "software": "Software"}

// RegistryText is what the values add to the container's system hive, in the hive's text form. key writes one value
// with its text (guest.RegistryKey); the values must have been checked.
func (c *RegistryChanges) RegistryText(key func(key, name, value string) string) string {
	if c == nil {
		return ""
	}
	var all strings.Builder
	for _, v := range c.AddValues {
		path := hiveRoots[strings.ToLower(v.Key.Hive)] + `\` + currentControlSet(strings.Trim(v.Key.Name, `\`))
		if v.Type == "DWord" {
			text := key(path, v.Name, "")
			all.WriteString(strings.TrimSuffix(text, "\"\"\n") + fmt.Sprintf("dword:%08x\n", uint32(v.DWordValue)))
			continue
		}
		all.WriteString(key(path, v.Name, v.StringValue))
	}
	return all.String()
}

// currentControlSet names the control set that is in use, which is ControlSet001 of an offline hive and a link to it
// in a running system.
func currentControlSet(key string) string {
	const offline = "ControlSet001"
	if len(key) >= len(offline) && strings.EqualFold(key[:len(offline)], offline) {
		return "CurrentControlSet" + key[len(offline):]
	}
	return key
}
