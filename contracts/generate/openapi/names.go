package main

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v4"
)

// generatorNames are types that generators of clients declare themselves, in lower
// case: a schema of the name makes code that does not compile, or that the generator
// renames.
var generatorNames = map[string]bool{
	"apiclient": true, "apierror": true, "apiexception": true, "apikey": true, "apiresponse": true,
	"authentication": true, "basicauth": true, "client": true, "configuration": true, "contextkey": true,
	"error": true, "genericopenapierror": true, "pair": true, "response": true, "request": true,
	"serverconfiguration": true, "servervariable": true,
	"any": true, "date": true, "file": true, "list": true, "map": true, "object": true, "option": true,
	"set": true, "string": true, "task": true, "time": true, "version": true,
}

// generatorEndings follow the name of an operation in types that generators declare.
var generatorEndings = []string{"Data", "Error", "Errors", "Params", "Response", "Responses"}

// usable refuses a document whose names some generator of clients uses itself, and
// two enums with a value in common, which share a namespace in Go and C.
func usable(root *yaml.Node) error {
	operations := map[string]bool{}
	paths := member(root, "paths")
	for i := 1; i < len(paths.Content); i += 2 {
		for j := 1; j < len(paths.Content[i].Content); j += 2 {
			if id := member(paths.Content[i].Content[j], "operationId"); id != nil {
				for _, ending := range generatorEndings {
					operations[strings.ToLower(id.Value+ending)] = true
				}
			}
		}
	}
	schemas, owners := member(member(root, "components"), "schemas"), map[string]string{}
	for i := 0; i < len(schemas.Content); i += 2 {
		name := schemas.Content[i].Value
		if lower := strings.ToLower(name); generatorNames[lower] || operations[lower] {
			return fmt.Errorf("the schema %s has a name that generators of clients use themselves: rename it", name)
		}
		values := member(schemas.Content[i+1], "enum")
		for j := 0; values != nil && j < len(values.Content); j++ {
			value := values.Content[j].Value
			if owners[value] != "" {
				return fmt.Errorf("the enums %s and %s both have %s, which does not compile in Go: put the name of the enum before one of them", owners[value], name, value)
			}
			owners[value] = name
		}
	}
	return nil
}
