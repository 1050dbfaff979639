-- encoding: of the file's texts.
PRAGMA encoding
