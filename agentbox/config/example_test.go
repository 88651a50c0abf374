package config_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"agentbox/agentbox/config"
)

// A configuration is found from any directory of its repository. Every mistake in it is told at
// once, with its line.
func ExampleLoad() {
	root, err := os.MkdirTemp("", "app")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(root)
	below := filepath.Join(root, "cmd", "app")
	file := filepath.Join(root, "agentbox.yaml")
	write := func(text string) error { return os.WriteFile(file, []byte(text), 0o600) }
	if err := os.MkdirAll(below, 0o700); err != nil {
		fmt.Println(err)
		return
	}
	if err := os.Mkdir(filepath.Join(root, ".git"), 0o700); err != nil {
		fmt.Println(err)
		return
	}
	if err := write("image: apt:bookworm\nmemory: 512MiB\nports: [3000, \"8080:80\"]\n"); err != nil {
		fmt.Println(err)
		return
	}
	cfg, err := config.Load(context.Background(), below)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(cfg.Image, config.FormatSize(cfg.Memory), cfg.Ports)
	if err := write("memori: 2GiB\ncpus: many\n"); err != nil {
		fmt.Println(err)
		return
	}
	_, err = config.Load(context.Background(), below)
	fmt.Println(err)
	// Output:
	// apt:bookworm 512MiB [{3000 3000} {80 8080}]
	// agentbox.yaml:1: unknown key `memori`: did you mean `memory`?
	// agentbox.yaml:2: cpus: expected a whole number, found the text "many"
}

// Sizes need a unit, and are rounded up to a whole MiB.
func ExampleParseSize() {
	for _, s := range []string{"2GiB", "1.5G", "100MB", "2048"} {
		n, err := config.ParseSize(s)
		if err != nil {
			fmt.Println("error:", err)
			continue
		}
		fmt.Println(s, "is", config.FormatSize(n))
	}
	// Output:
	// 2GiB is 2GiB
	// 1.5G is 1536MiB
	// 100MB is 96MiB
	// error: "2048" has no unit: write it as 2GiB or 512MiB
}
