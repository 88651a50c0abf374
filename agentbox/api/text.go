package api

import (
	"reflect"
	"unicode/utf8"

	"agentbox/agentbox"
)

// checkText refuses a request with a string that is not UTF-8, code Invalid: JSON would carry
// something else in its place, and a command would get that.
func checkText(req any) error {
	s, ok := notText(reflect.ValueOf(req))
	if !ok {
		return nil
	}
	return agentbox.Errorf(agentbox.Invalid, "%q is not UTF-8, and nothing else can be sent to the daemon", s).
		WithHint("agentbox exec passes any bytes on; jobs, runs and tasks take text only")
}

// notText finds the first string in v that is not UTF-8. It looks at what JSON carries as text, so
// not into []byte.
func notText(v reflect.Value) (string, bool) {
	switch v.Kind() {
	case reflect.String:
		return v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return notText(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if s, ok := notText(v.Field(i)); ok {
				return s, true
			}
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			if s, ok := notText(v.Index(i)); ok {
				return s, true
			}
		}
	case reflect.Map:
		for pairs := v.MapRange(); pairs.Next(); {
			for _, part := range []reflect.Value{pairs.Key(), pairs.Value()} {
				if s, ok := notText(part); ok {
					return s, true
				}
			}
		}
	}
	return "", false
}
