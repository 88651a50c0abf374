//go:build linux

package agent

import (
	"os"
	"time"

	"agentbox/vmm/guest/javastore"
)

// javaStores are where Java keeps the authorities it believes: Debian's, which its packages link
// to, and those of other builds. It reads no other file and no variable. Patterns below the root.
var javaStores = []string{
	"etc/ssl/certs/java/cacerts",
	"etc/pki/java/cacerts",
	"usr/lib/jvm/*/lib/security/cacerts",
	"usr/lib/jvm/*/jre/lib/security/cacerts",
	"opt/java/*/lib/security/cacerts",
	"opt/*/lib/security/cacerts",
}

// trustJava gives stores of Java's the authorities of a bundle. bundle has the box's authority by
// then. A store is written anew as a whole: it cannot be added to.
func trustJava(stores []string, bundle string) error {
	if len(stores) == 0 {
		return nil
	}
	text, err := os.ReadFile(bundle)
	if err != nil {
		return err
	}
	store := javastore.Encode(text, time.Now())
	for _, path := range stores {
		if err := os.WriteFile(path, store, 0o644); err != nil {
			return err
		}
	}
	return nil
}
