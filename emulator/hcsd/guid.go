package hcsd

import (
	"crypto/sha1"
	"fmt"
	"strings"
)

// NameToGUID is the GUID of a layer's name: the same for the same name in any case. How Windows works it out is not
// documented; this is a GUID of version 5 (RFC 9562) without a namespace.
func NameToGUID(name string) string {
	h := sha1.Sum(append(make([]byte, 16), strings.ToLower(name)...))
	h[6], h[8] = h[6]&0x0f|0x50, h[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", h[0:4], h[4:6], h[6:8], h[8:10], h[10:16])
}

// Volume is the path of the volume that shows a mounted layer, as GetLayerMountPath gives it: without a backslash at
// its end.
func Volume(layer string) string { return `\\?\Volume{` + layer + `}` }

// LayerOfVolume is the reverse of Volume; a backslash at the end is taken.
func LayerOfVolume(volume string) (layer string, ok bool) {
	rest, ok := strings.CutPrefix(strings.TrimSuffix(volume, `\`), `\\?\Volume{`)
	if !ok {
		return "", false
	}
	layer, ok = strings.CutSuffix(rest, "}")
	return strings.ToLower(layer), ok && guidForm.MatchString(layer)
}
