package platform

import "testing"

// TestHeld: nobody but SYSTEM and the administrators changes a folder itself, and what is made in it inherits as
// before. The first list is that of a folder which an administrator made at the root of a disk of Windows Server.
func TestHeld(t *testing.T) {
	for name, c := range map[string]struct{ sddl, want string }{
		"below the root of a disk": {
			"O:BAG:SYD:AI(A;OICIID;FA;;;BA)(A;OICIID;FA;;;SY)(A;OICIID;0x1200a9;;;BU)(A;ID;0x1301bf;;;AU)(A;OICIIOID;SDGXGWGR;;;AU)",
			"D:P(A;OICI;FA;;;BA)(A;OICI;FA;;;SY)(A;OICI;0x1200a9;;;BU)(A;;0x1200a9;;;AU)(A;OICIIO;SDGXGWGR;;;AU)"},
		"users make folders": {"O:SYG:SYD:(A;;0x1200a9;;;BU)(A;CI;LC;;;BU)(A;CIIO;DC;;;BU)",
			"D:P(A;;0x1200a9;;;BU)(A;CIIO;LC;;;BU)(A;CIIO;DC;;;BU)"},
		"everybody":       {"O:BAD:(A;OICI;FA;;;WD)", "D:P(A;;0x1200a9;;;WD)(A;OICIIO;FA;;;WD)"},
		"names of rights": {"O:BAD:(A;;GRGWGX;;;S-1-5-21-1-2-3-1001)", "D:P(A;;0x1200a9;;;S-1-5-21-1-2-3-1001)"},
		"denied first":    {"O:BAD:(D;;FA;;;BG)(A;;GA;;;AU)", "D:P(D;;FA;;;BG)(A;;0x1200a9;;;AU)"},
		"no list":         {"O:BAG:BA", "D:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;;0x1200a9;;;WD)(A;OICIIO;FA;;;WD)"},
		"with audit":      {"O:BAD:(A;;FA;;;AU)S:(AU;SAFA;FA;;;WD)", "D:P(A;;0x1200a9;;;AU)"},
	} {
		list, differs, err := held(c.sddl)
		if list != c.want || !differs || err != nil {
			t.Errorf("%s: %s, %v, %v, want %s", name, list, differs, err, c.want)
		}
		if again, differs, err := held("O:BA" + list); again != list || differs || err != nil {
			t.Errorf("%s again: %s, %v, %v", name, again, differs, err)
		}
	}

	for _, fine := range []string{"O:BAD:P(A;OICI;FA;;;SY)(A;OICI;FA;;;BA)(A;OICI;0x1200a9;;;BU)",
		"O:SYD:PAI(A;;FA;;;SY)(A;CIIO;GA;;;CO)(A;;0x1200a9;;;BU)"} {
		if _, differs, err := held(fine); differs || err != nil {
			t.Errorf("%s: %v, %v", fine, differs, err)
		}
	}
	if _, _, err := held("D:(A;;XY;;;WD)"); err == nil {
		t.Error("unknown rights were taken")
	}
}

func TestOwnedByOther(t *testing.T) {
	for sddl, want := range map[string]bool{
		"O:BAG:SYD:P(A;;FA;;;SY)": false, "O:SYD:(A;;FA;;;SY)": false, "O:S-1-5-21-1-2-3-1001G:BUD:": true,
		"O:AUD:": true, "O:S-1-5-32-544G:SY": false,
		"O:S-1-5-80-956008885-3418522649-1831038044-1853292631-2271478464G:S-1-5-80-1D:PAI": false,
	} {
		if got := ownedByOther(sddl); got != want {
			t.Errorf("%s: %v", sddl, got)
		}
	}
}
