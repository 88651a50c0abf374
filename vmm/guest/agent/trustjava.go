//go:build linux

package agent

import (
	"os"
	"time"

	"agentbox/vmm/guest/javastore"
)

// javaStores are where Java keeps its authorities, below the root: Debian's packages link to the
// first, other builds have their own. Java reads no other file and no variable.
var javaStores = []string{
	"etc/ssl/certs/java/cacerts",
	"etc/pki/java/cacerts",
	"usr/lib/jvm/*/lib/security/cacerts",
	"usr/lib/jvm/*/jre/lib/security/cacerts",
	"opt/java/*/lib/security/cacerts",
	"opt/*/lib/security/cacerts",
}

// trustJava writes the authorities of a bundle into Java's stores. A store cannot be added to, so
// it is written anew.
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
