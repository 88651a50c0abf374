package cachestore_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"agentbox/cachestore"
	"agentbox/cachestore/blob"
)

// A store keeps what can be got again. The same bytes are stored once, whoever puts them, and what
// is read was verified.
func ExampleStore_PutStream() {
	dir, err := os.MkdirTemp("", "store")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	store, err := cachestore.Open(ctx, cachestore.Config{Dir: dir, ReserveFile: -1, KeepFree: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer store.Close()
	text := strings.Repeat("what setup made\n", 1<<12)
	for range 2 {
		put, err := store.PutStream(ctx, strings.NewReader(text), blob.Info{Kind: blob.Cache})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(put.Size, put.Manifest.Short(), "new:", put.Written > 0)
	}
	put, err := store.PutStream(ctx, strings.NewReader(text), blob.Info{Kind: blob.Cache})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, err := store.OpenBlob(ctx, put.Manifest, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer r.Close()
	back, err := io.ReadAll(io.NewSectionReader(r, 0, r.Size()))
	fmt.Println(string(back) == text, err)
	// Output:
	// 65536 3cc46c5e5275 new: true
	// 65536 3cc46c5e5275 new: false
	// true <nil>
}
