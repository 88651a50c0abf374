// Package cli is the command line: one file per verb, each a thin layer over api.Client. It prints
// for people, or JSON for programs, and knows nothing of how boxes work.
package cli
