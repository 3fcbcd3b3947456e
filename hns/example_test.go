package hns_test

import (
	"errors"
	"fmt"

	"porthole.dev/porthole/hns"
)

// What to do after a failed call follows from the class of its error, not from its code: HNS has several codes for one
// thing, and none at all if it did not answer.
func ExampleClassOf() {
	for _, err := range []error{
		nil,
		&hns.Error{Doing: "deleting endpoint 5c2e", Class: hns.Absent, Code: 0x803b0002, Err: errors.New("not found")},
		errors.New("the pipe is closed"),
	} {
		switch class := hns.ClassOf(err); class {
		case "":
			fmt.Println("done")
		case hns.Absent:
			fmt.Println("there was nothing to delete")
		case hns.Unknown:
			fmt.Println("nobody knows: list before you try again")
		default:
			fmt.Println("refused:", class)
		}
	}
	// Output:
	// done
	// there was nothing to delete
	// nobody knows: list before you try again
}

// HNS writes hardware addresses with hyphens, Linux with colons.
func ExampleNormalMAC() {
	fmt.Println(hns.NormalMAC("00:15:5d:0a:0b:0c"))
	// Output: 00-15-5D-0A-0B-0C
}
