package yamlfile

import (
	"strings"

	"github.com/agext/levenshtein"
)

// Suggest returns the end of a sentence about an unknown word: the known word that was probably
// meant, or else all known words.
func Suggest[T ~string](word string, known []T) string {
	if s := Nearest(word, known); s != "" {
		return s
	}
	all := make([]string, len(known))
	for i, k := range known {
		all[i] = string(k)
	}
	return ": known are " + strings.Join(all, ", ")
}

// Nearest returns the end of such a sentence with the known word that was probably meant, or "". A
// word is near if fewer than two letters differ, plus one for every four letters of the word.
func Nearest[T ~string](word string, known []T) string {
	best, distance := "", 2+len(word)/4
	if len(word) > 64 { // nobody mistypes a word of that length, and the comparison takes quadratic time
		return ""
	}
	for _, k := range known {
		if d := levenshtein.Distance(strings.ToLower(word), strings.ToLower(string(k)), nil); d < distance {
			best, distance = string(k), d
		}
	}
	if best == "" {
		return ""
	}
	return ": did you mean `" + best + "`?"
}
