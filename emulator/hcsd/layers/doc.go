// Package layers owns the layers of an emulated host: what containers have as their C:, and what images are made of.
//
//	           Import                               used below another
//	(folder) ─────────▶ shown in its folder Files ─────────────────────▶ finished: the files that it changes
//
//	            Activate          Prepare
//	(folder) ──────────▶ active ──────────▶ mounted over those below: a volume of the host, the C: of a container
//	            ◀──────────       ◀──────────
//	            Deactivate        Unprepare
//
// A base layer is a plain folder. A layer is removed, with its mounts, by Destroy.
package layers
