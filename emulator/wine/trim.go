package wine

import (
	"path"
	"regexp"
	"strings"
)

// Wine registers what a desktop has. Server Core has no browser, no multimedia and no devices for a user, so that a
// template is without:
//
//   - devices that no host has, whose drivers services.exe starts whatever their services say: a process of 10 MB for
//     each host;
//   - COM classes of libraries that Server Core does not have, with the interfaces of their type libraries. Each
//     wineserver, of which a host and each of its containers has one, reads the registry at its start and keeps it:
//     1.7 MB of 6.4.
const trimVersion = "trim 2" // changes with what trim does, so that templates are made again

// noDevices are the keys below which the devices are, in the current control set.
var noDevices = []string{`Enum\\ROOT\\WINE`, `Enum\\WINEBUS`, `Enum\\HID`}

// controlSets are the names of the current control set: in a hive of Wine 10.0 CurrentControlSet is a link to the other
// one, as on Windows.
var controlSets = []string{`System\\CurrentControlSet\\`, `System\\ControlSet001\\`}

// isDevice reports whether a key is one of a device that no host has.
func isDevice(key string) bool {
	for _, set := range controlSets {
		for _, device := range noDevices {
			if strings.HasPrefix(strings.ToLower(key), strings.ToLower(set+device)) {
				return true
			}
		}
	}
	return false
}

// desktopLibraries are the libraries of the browser, of help, DirectX, DirectShow, Media Foundation, media players,
// speech, games and scanners.
var desktopLibraries = regexp.MustCompile(
	`^(mshtml|ieframe|dhtmled|hhctrl|hlink|inseng|browseui|itss|inetcomm|msimtf|explorerframe|` +
		`dm(band|compos|ime|loader|script|style|synth|usic|usic32)|dsdmo|dsound|dswave|dpn\w+|dpvoice|dplayx|dx8vb|ddraw(ex)?|d3d\w+|dinput8?|xaudio2_\d|x3daudio\w+|xactengine\w+|xapofx\w+|` +
		`quartz|qcap|qedit|qdvd|qasf|amstream|devenum|winegstreamer|evr|msdmo|wmp|wmphoto|wmadmod|wmvdecod|mf\w*|colorcnv|resampledmo|mp3dmod|mmdevapi|avifil32|msvidc32|iccvid|` +
		`sapi|gameux|uianimation|uiribbon|directmanipulation|sti|wia\w*|windows\.media\w*|windows\.gaming\w*)\.(dll|ocx|ax)$`)

// desktopTypes are the type libraries of these: MSHTML, Internet Controls, DHTML editing, HTML help, Quartz, Windows
// Media Player, speech, game explorer.
var desktopTypes = map[string]bool{
	"{3050f1c5-98b5-11cf-bb82-00aa00bdce0b}": true, "{eab22ac0-30c1-11cf-a7eb-0000c05bae0b}": true,
	"{683364a1-b37d-11d1-adc5-006008a5848c}": true,
	"{adb880a2-d8ff-11cf-9377-00aa003b7a11}": true, "{56a868b0-0ad4-11ce-b03a-0020af0ba770}": true,
	"{6bf52a50-394a-11d3-b153-00c04f79faa6}": true,
	"{c866ca3a-32f7-11d2-9602-00c04f8ee628}": true, "{4f48a59c-942d-4f3c-83c9-4effe84e4959}": true,
}

// desktopClasses are groups of classes that only these libraries read.
var desktopClasses = map[string]bool{"directshow": true, "mediafoundation": true, "media type": true}

// trim returns the text of a system hive without what Server Core has not. What it does not understand stays.
func trim(hive string) string {
	head, keys := splitHive(hive)
	classes, interfaces := map[string]bool{}, map[string]bool{} // to leave out, by GUID
	for _, k := range keys {
		if group, id, rest := k.class(); group == "clsid" && rest == "inprocserver32" &&
			desktopLibraries.MatchString(strings.ToLower(path.Base(k.value()))) {
			classes[id] = true
		}
	}
	for _, k := range keys {
		group, id, rest := k.class()
		value := strings.ToLower(k.value())
		if group == "interface" &&
			(rest == "typelib" && desktopTypes[value] || rest == "proxystubclsid32" && classes[value]) {
			interfaces[id] = true
		}
	}

	var out strings.Builder
	out.WriteString(head)
	for _, k := range keys {
		group, id, _ := k.class()
		drop := desktopClasses[group] || group == "clsid" && classes[id] || group == "interface" && interfaces[id] ||
			group == "typelib" && desktopTypes[id]
		if !drop && !isDevice(k.name) {
			out.WriteString(k.text)
		}
	}
	return out.String()
}

// hiveKey is one key of a hive in its text form, with its values.
type hiveKey struct{ name, text string }

// splitHive returns what comes before the first key, and the keys. The texts together are the hive.
func splitHive(hive string) (head string, keys []hiveKey) {
	begin := 0
	cut := func(end int) {
		text := hive[begin:end]
		begin = end
		if name, ok := strings.CutPrefix(text, "["); ok {
			name, _, _ = strings.Cut(name, "]")
			keys = append(keys, hiveKey{name, text})
			return
		}
		head += text
	}
	for at := range len(hive) {
		if hive[at] == '[' && at > 0 && hive[at-1] == '\n' {
			cut(at)
		}
	}
	cut(len(hive))
	return head, keys
}

// class returns, in lower case, what follows Software\Classes in the name of a key: "clsid", a GUID and the rest.
func (k hiveKey) class() (group, id, rest string) {
	below, ok := strings.CutPrefix(strings.ToLower(k.name), `software\\classes\\`)
	if !ok {
		return "", "", ""
	}
	group, below, _ = strings.Cut(below, `\\`)
	id, rest, _ = strings.Cut(below, `\\`)
	return group, id, rest
}

// value is the key's default value, if it is a text, with slashes in place of backslashes.
func (k hiveKey) value() string {
	_, value, _ := strings.Cut(k.text, "\n@=\"")
	value, _, _ = strings.Cut(value, "\"")
	return strings.ReplaceAll(value, `\\`, "/")
}
