package door

import (
	"encoding/json"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"agentbox/agentbox"
)

// fromQuery sets the fields of a request by their names in JSON. Only texts, numbers and booleans can
// be in a query.
func fromQuery(v reflect.Value, query url.Values) error {
	for _, f := range reflect.VisibleFields(v.Type()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "" || !query.Has(name) {
			continue
		}
		if err := setText(v.FieldByIndex(f.Index), query.Get(name)); err != nil {
			return agentbox.Errorf(agentbox.Invalid, "%s: %w", name, err)
		}
		query.Del(name)
	}
	for name := range query {
		return agentbox.Errorf(agentbox.Invalid, "there is no field %q", name).WithHint("GET /v1/openapi.json describes the call; lists and objects need a POST")
	}
	return nil
}

// setText sets a field from a text: as JSON, or as a JSON string of it.
func setText(v reflect.Value, text string) error {
	if v.Kind() != reflect.String {
		if err := json.Unmarshal([]byte(text), v.Addr().Interface()); err == nil {
			return nil
		}
	}
	quoted, err := json.Marshal(text)
	if err == nil {
		err = json.Unmarshal(quoted, v.Addr().Interface())
	}
	return err
}

// takeNumber takes a number that is not negative out of a query; 0 if it is not there.
func takeNumber(query url.Values, name string) (int, error) {
	text := query.Get(name)
	query.Del(name)
	if text == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 0 {
		return 0, agentbox.Errorf(agentbox.Invalid, "%s: %q is no number of at least 0", name, text)
	}
	return n, nil
}

// fieldOf finds a struct inside a request: itself, or embedded in it.
func fieldOf[T any](req reflect.Value) *T {
	if p, ok := req.Addr().Interface().(*T); ok {
		return p
	}
	i := slices.IndexFunc(reflect.VisibleFields(req.Type()), func(f reflect.StructField) bool {
		return f.Anonymous && f.Type == reflect.TypeFor[T]()
	})
	if i < 0 {
		return nil
	}
	return req.FieldByIndex(reflect.VisibleFields(req.Type())[i].Index).Addr().Interface().(*T)
}
