// Runs steps with gomemcache: `gomemcache LIBRARY HOST:PORT`; lines as in steps.py.
package main

import (
	"bufio"
	"encoding/hex"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

var client *memcache.Client
var last *memcache.Item // of the last gets: its number is not public

func shown(item *memcache.Item, err error) string {
	if err == memcache.ErrCacheMiss {
		return "none"
	}
	if err != nil {
		return "error " + err.Error()
	}
	text := hex.EncodeToString(item.Value)
	if text == "" {
		text = "-"
	}
	return "value " + text
}

func done(err error) string {
	switch err {
	case nil:
		return "true"
	case memcache.ErrNotStored, memcache.ErrCacheMiss, memcache.ErrCASConflict:
		return "false"
	}
	return "error " + err.Error()
}

func step(words []string) string {
	verb, key, body := words[0], "", []byte{}
	if len(words) > 1 {
		key = words[1]
	}
	if len(words) > 2 && words[2] != "-" {
		body, _ = hex.DecodeString(words[2])
	}
	item := &memcache.Item{Key: key, Value: body}
	switch verb {
	case "new":
		client = memcache.New(os.Args[2])
		client.Timeout = 30 * time.Second
		return "ok"
	case "get":
		return shown(client.Get(key))
	case "gets":
		found, err := client.Get(key)
		last = found
		if err != nil {
			return shown(found, err)
		}
		return shown(found, nil) + " hidden"
	case "cas":
		last.Key, last.Value = key, body
		return done(client.CompareAndSwap(last))
	case "set":
		return done(client.Set(item))
	case "add":
		return done(client.Add(item))
	case "append": // there is none; what a queue has not either
		_, err := client.Increment(key, 1)
		return done(err)
	case "delete":
		return done(client.Delete(key))
	case "touch":
		seconds, _ := strconv.Atoi(words[2])
		if toucher, ok := interface{}(client).(interface{ Touch(string, int32) error }); ok {
			return done(toucher.Touch(key, int32(seconds)))
		}
		return "lacks"
	case "native":
		switch words[2] {
		case "text":
			item.Value = []byte("héllo")
		case "long":
			item.Value = []byte(strings.Repeat("x", 100000))
		default:
			return "lacks"
		}
		return done(client.Set(item))
	}
	return "lacks"
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		fmt.Println(strings.Join(strings.Fields(step(strings.Fields(lines.Text()))), " "))
	}
}
