/* tls.c - see tls.h. */
#include "sink/curl/tls.h"

bool ob_curl_tls(CURL *easy, const struct ob_tls *tls)
{
    const struct {
        CURLoption option;
        const char *text;
    } texts[] = {{CURLOPT_CAINFO, tls->ca},
                 {CURLOPT_SSLCERT, tls->cert},
                 {CURLOPT_SSLKEY, tls->key},
                 {CURLOPT_KEYPASSWD, tls->key_password}};
    long least = tls->only_1_3 ? CURL_SSLVERSION_TLSv1_3 : CURL_SSLVERSION_TLSv1_2;
    bool ok = curl_easy_setopt(easy, CURLOPT_SSLVERSION, least) == CURLE_OK;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        ok = ok && (!texts[i].text || curl_easy_setopt(easy, texts[i].option, texts[i].text) == CURLE_OK);
    return ok;
}
