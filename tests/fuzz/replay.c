/* replay.c - runs a fuzz target over files instead of libFuzzer: the corpus is played once in every build. Prints TAP. */
#include "fuzz.h"

#include <dirent.h>
#include <stdio.h>

static void play(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        printf("not ok 1 - %s: cannot be read\n", path);
        exit(1);
    }
    long size = ftell(file);
    rewind(file);
    uint8_t *data = malloc(size > 0 ? (size_t)size : 1); /* as long as the input: reading past it is seen */
    if (!data || fread(data, 1, (size_t)size, file) != (size_t)size)
        exit(1);
    fclose(file);
    LLVMFuzzerTestOneInput(data, (size_t)size);
    free(data);
}

int main(int argc, char **argv)
{
    int count = 0;
    for (int i = 1; i < argc; i++) {
        DIR *dir = opendir(argv[i]);
        if (!dir) {
            play(argv[i]);
            count++;
            continue;
        }
        for (struct dirent *entry; (entry = readdir(dir));) {
            char path[4096];
            if (entry->d_name[0] == '.')
                continue;
            snprintf(path, sizeof path, "%s/%s", argv[i], entry->d_name);
            play(path);
            count++;
        }
        closedir(dir);
    }
    LLVMFuzzerTestOneInput((const uint8_t *)"", 0);
    printf("1..1\nok 1 - M17: %d inputs of the corpus\n", count);
    return 0;
}
