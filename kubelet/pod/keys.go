package pod

import (
	"strings"
)

// Keys of actions and failures of which a pod has one. No container has such a name.
const (
	SandboxKey     = "/sandbox"
	VolumesKey     = "/volumes"
	CleanupKey     = "/clean-up"
	RemoveKey      = "/remove"
	StopSandboxKey = "/stop-sandbox"
)

// ResizeKey is the key of ResizePod actions and of their failures.
const ResizeKey = "/resize"

// Keys of actions that are about one container, sandbox or image.
func startKey(container string) string     { return "start/" + container }
func hookKey(container string) string      { return "start/" + container + "/hook" }
func stopKey(container string) string      { return "stop/" + container }
func stopSandboxKey(sandbox string) string { return "stop-sandbox/" + sandbox }
func removeKey(id string) string           { return "remove/" + id }
func imageActionKey(image string) string {
	if strings.HasPrefix(image, "/") { // of a volume
		return "image" + image
	}
	return "image/" + image
}

// VolumeImage returns the name under which the state keeps the image of a volume. No container has such a name.
func VolumeImage(volume string) string { return "/volume/" + volume }
